"""Stored replies in a dictionary, and the lookups of a request answered from it."""

from fcshim.codecs.reply_store import LookupResult


class StoredDocuments:
    """Implements `DocumentStore`; `aliases` maps ids of items to names."""

    def __init__(self):
        self.documents = {}
        self.aliases = {}

    def put(self, name, document, aliases=()):
        self.documents[name] = document
        self.aliases.update(dict.fromkeys(aliases, name))

    def get(self, name):
        return self.documents.get(name)

    def delete(self, name):
        return self.documents.pop(name, None) is not None

    def read(self, steps):
        """Run what `Codec.recall_request` returns."""
        found = None
        while True:
            try:
                lookup = next(steps) if found is None else steps.send(found)
            except StopIteration as end:
                return end.value
            found = LookupResult(
                {name: self.documents[name] for name in lookup.names if name in self.documents},
                {alias: self.aliases[alias] for alias in lookup.aliases if alias in self.aliases},
            )

"""References by `$id`, `$anchor` and `$dynamicAnchor`, written as JSON pointers, which the grammar follows.

Rule: nothing is fetched. A reference whose target is not certain to be in the schema stays, and the grammar notes it.
"""

from urllib.parse import quote, unquote, urljoin

from fcshim.constrain.subschemas import MAX_DEPTH, subschemas, with_subschemas
from fcshim.events import JSON

_MAX_POINTER = 1_000
"""Characters of the pointer to a named schema: each of its references becomes as long."""


def with_pointers(root: JSON) -> JSON:
    """Return the schema with its references as pointers; the object itself where it names nothing."""
    if not isinstance(root, dict):
        return root
    names = _Names(root)
    return names.rewritten(root) if len(names.targets) > 1 or "$id" in root else root


class _Names:
    """The named schemas of one root schema; `targets` has their pointers by URI."""

    def __init__(self, root: dict[str, JSON]) -> None:
        self.targets: dict[str, str] = {}
        self._dynamic: dict[str, list[str]] = {}
        self._root_base = _base(root, "")
        self._collect(root, "", ())

    def _collect(self, schema: dict[str, JSON], base: str, path: tuple[str, ...]) -> None:
        base = _base(schema, base)
        if base not in self.targets:  # the first schema with this base is the one whose `$id` it is
            self._name(base, path)
        for keyword in ("$id", "$anchor", "$dynamicAnchor"):  # an `$id` of draft 7 may be `#name`
            name = schema.get(keyword)
            if isinstance(name, str) and (keyword != "$id" or name.startswith("#")):
                uri = f"{base}#{name.removeprefix('#')}"
                self._name(uri, path)
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(name, []).append(uri)
        for steps, inner in subschemas(schema) if len(path) < MAX_DEPTH else ():
            self._collect(inner, base, (*path, *steps))

    def _name(self, uri: str, path: tuple[str, ...]) -> None:
        steps = (quote(step.replace("~", "~0").replace("/", "~1"), errors="surrogatepass") for step in path)
        pointer = "/".join(("#", *steps))
        if len(pointer) <= _MAX_POINTER:
            self.targets.setdefault(uri, pointer)

    def rewritten(self, schema: JSON, base: str = "", depth: int = 0) -> JSON:
        """Return a schema, which is inside the resource `base`, with pointers; the object itself if nothing changes."""
        if not isinstance(schema, dict):
            return schema
        if depth > MAX_DEPTH:
            return schema if base == self._root_base else {"$ref": base}  # its pointers start at another schema
        base = _base(schema, base)
        schema = with_subschemas(schema, lambda inner: self.rewritten(inner, base, depth + 1))
        changed = {key: value for key, value in schema.items() if key != "$id" or base not in self.targets}
        for keyword in ("$ref", "$dynamicRef"):
            reference = schema.get(keyword)
            found = self._pointer(base, reference, keyword) if isinstance(reference, str) else None
            if found is not None and (keyword == "$ref" or "$ref" not in schema):
                del changed[keyword]
                changed["$ref"] = found
        return schema if changed == schema else changed

    def _pointer(self, base: str, reference: str, keyword: str) -> str | None:
        resource, _, fragment = _joined(base, reference).partition("#")
        if not fragment or fragment.startswith("/"):
            start = self.targets.get(resource)
            return None if start is None else start + fragment
        uri = f"{resource}#{unquote(fragment)}"
        dynamic = self._dynamic.get(unquote(fragment), []) if keyword == "$dynamicRef" else []
        if uri in dynamic:  # the outermost resource of the evaluation decides, and the root is always around
            outermost = f"{self._root_base}#{unquote(fragment)}"
            if outermost not in dynamic and len(dynamic) > 1:
                return None
            uri = outermost if outermost in dynamic else uri
        return self.targets.get(uri)


def _base(schema: dict[str, JSON], outer: str) -> str:
    """Return the URI of the resource that a schema belongs to."""
    name = schema.get("$id")
    return _joined(outer, name).partition("#")[0] if isinstance(name, str) and not name.startswith("#") else outer


def _joined(base: str, reference: str) -> str:
    if reference.startswith("#"):
        return base + reference
    try:
        return urljoin(base, reference)
    except ValueError:  # no URI
        return reference

"""Identifies the models of an upstream: by their files, digests, sizes and chat templates, not by a client's name.

Rule: where the upstream has one chat model, every name means that model. A page that is missing, hangs or has another
format adds nothing. What changes from request to request (`created`) is no part of an identity.
"""

import asyncio
import hashlib
import re

import msgspec

from fcshim.codecs.json_text import read_count
from fcshim.codecs.model_info import read_page
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import JSON
from fcshim.pipeline.backends import GENERIC
from fcshim.upstream.detection import PAGE_TIMEOUT, loads_on_demand
from fcshim.upstream.endpoint import Upstream, root_url
from fcshim.upstream.model_pages import fetch_object, props_path

_NO_CHAT = re.compile(r"(?i)embed|rerank|whisper|(?<![a-z])(?:bert|bge|e5|gte|clip|tts|dall-e|minilm)(?![a-z])")
"""Names, families and types of models that cannot chat; servers list them among the others."""
_BLOB = re.compile(r"sha256[-:]([0-9a-f]{64})")
_LATEST = ":latest"
_MAX_LISTED = 10_000
"""Models of a list that are read; hosted endpoints list some hundred."""


class ListedModel(msgspec.Struct, frozen=True):
    """One chat model of an upstream's list: the name by which it is asked for, other names, and what the list says."""

    name: str
    aliases: tuple[str, ...] = ()
    size: int = 0
    parameter_count: int = 0
    digest: str = ""
    root: str = ""
    """The repository, which vLLM names."""
    owner: str = ""

    def has_name(self, name: str) -> bool:
        """Return whether the model has this name; `:latest` is the default tag."""
        return name.removesuffix(_LATEST) in (each.removesuffix(_LATEST) for each in (self.name, *self.aliases))


class ServedModels(msgspec.Struct, frozen=True):
    """The chat models of one upstream. `on_demand`: a model is loaded when something about it is asked for."""

    models: tuple[ListedModel, ...]
    on_demand: bool = False

    def find(self, name: str) -> ListedModel | None:
        """Return the model that is meant by `name`: the only one, else the one of that name; None if it is unlisted."""
        if len(self.models) == 1:
            return self.models[0]
        return next((model for model in self.models if model.has_name(name)), None)


class ModelIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies a model; empty and 0 for what its server does not report.

    `names` are its real names, the best first: its file, its general name, its repository, Ollama's tag. `endpoint` is
    the server's address, only where nothing but a name identifies the model. `native_tools`: what its server claims,
    None if it says nothing; no part of the identity.
    """

    names: tuple[str, ...]
    server: str = ""
    file: str = ""
    digest: str = ""
    size: int = 0
    parameter_count: int = 0
    template: str = ""
    endpoint: str = ""
    native_tools: bool | None = None

    @property
    def name(self) -> str:
        """The model's name for people."""
        return self.names[0]

    @property
    def key(self) -> str:
        """The hash of everything that identifies the model, in hexadecimal digits."""
        template = hashlib.sha256(self.template.encode("utf-8", "replace")).hexdigest()
        # The same digest is the same model, whatever it is called.
        named = [self.digest] if self.digest else [self.file or self.name, self.size, self.parameter_count]
        parts = msgspec.json.encode([self.server, *named, template, self.endpoint])
        return hashlib.sha256(parts).hexdigest()[:32]


async def identify(upstream: Upstream, model: str) -> ModelIdentity | None:
    """Identify the model that requests for `model` get.

    None if the upstream cannot be reached, its API says nothing about models, or it has several and none of that name.
    """
    try:
        served = await list_served(upstream)
    except UpstreamError:
        return None
    found = served.find(model)
    return None if found is None else await identify_listed(upstream, found)


async def list_served(upstream: Upstream) -> ServedModels:
    """Return the chat models that the upstream lists. Raises `UpstreamError`."""
    if upstream.kind.native_tools:  # hosted providers: their names are evidence enough
        return ServedModels(())
    try:
        async with asyncio.timeout(PAGE_TIMEOUT):
            _, body = await upstream.list_models()
    except TimeoutError as error:
        raise UpstreamError(f"no list of models within {PAGE_TIMEOUT:g} s", status=504, kind="timeout") from error
    except UpstreamError:
        raise
    except FcshimError as error:  # it refuses to list its models
        raise UpstreamError(error.message, status=error.status, kind=error.kind) from error
    return read_served(body)


def read_served(body: bytes) -> ServedModels:
    """Read a list of models in the form of OpenAI or Ollama; models that cannot chat are left out."""
    page = read_page(body)
    entries = _entries(page.get("data")) or _entries(page.get("models"))
    listed = map(_listed_model, entries[:_MAX_LISTED])
    return ServedModels(tuple(model for model in listed if model is not None and model.name), loads_on_demand(body))


async def identify_listed(upstream: Upstream, model: ListedModel) -> ModelIdentity:
    """Identify a model of the upstream's list by the server's pages about it."""
    identity = ModelIdentity(
        names=_names(model.root, model.name, *model.aliases),
        digest=model.digest,
        size=model.size,
        parameter_count=model.parameter_count,
    )
    if model.owner not in GENERIC.owned_by:  # hosted providers have no such pages
        props = {} if upstream.kind.name == "ollama" else await fetch_object(upstream, "GET", props_path(model.name))
        if "default_generation_settings" in props:
            return _with_props(identity, props)
        shown = await fetch_object(upstream, "POST", "//api/show", msgspec.json.encode({"model": model.name}))
        if isinstance(shown.get("modelfile"), str):
            return _with_show(identity, model, shown)
    return msgspec.structs.replace(identity, endpoint=root_url(upstream.url))


def _with_props(identity: ModelIdentity, props: dict[str, JSON]) -> ModelIdentity:
    """Add llama-server's properties. The folder of the file is left out: a model may be moved."""
    file = _text(props, "model_path").replace("\\", "/").rpartition("/")[2]
    names = _names(file.removesuffix(".gguf"), _text(props, "model_alias"), *identity.names)
    template = _text(props, "chat_template")
    return msgspec.structs.replace(
        identity,
        names=names,
        server="llama-server",
        file=file,
        template=template,
        native_tools=_template_has_tools(props),
    )


def _with_show(identity: ModelIdentity, model: ListedModel, shown: dict[str, JSON]) -> ModelIdentity:
    """Add Ollama's page. The digest is that of the weights, which all tags of a model share."""
    found = shown.get("model_info"), shown.get("details")
    info, details = (each if isinstance(each, dict) else {} for each in found)
    capabilities = shown.get("capabilities")
    blob = _BLOB.search(_text(shown, "modelfile"))
    general = (_text(info, "general.name"), _text(info, "general.basename"), _text(details, "parent_model"))
    return msgspec.structs.replace(
        identity,
        names=_names(model.name, *general),
        server="ollama",
        digest=blob[1] if blob else model.digest,
        size=0,
        parameter_count=read_count(info, "general.parameter_count"),
        template=_text(shown, "template"),
        native_tools="tools" in capabilities if isinstance(capabilities, list) else None,
    )


def _template_has_tools(props: dict[str, JSON]) -> bool | None:
    """Return whether the chat template writes tools; None if llama-server does not show it."""
    caps = props.get("chat_template_caps")
    if isinstance(caps, dict) and isinstance(caps.get("supports_tools"), bool):
        return bool(caps["supports_tools"])
    template = props.get("chat_template")
    return "tools" in template if isinstance(template, str) else None


def _listed_model(entry: dict[str, JSON]) -> ListedModel | None:
    """Read an entry of the list; None for a model that cannot chat, by its name, its family or its type."""
    name = _text(entry, "id") or _text(entry, "model") or _text(entry, "name")
    details = entry.get("details")
    family = _text(details, "family") if isinstance(details, dict) else ""
    file_name = name.replace("\\", "/").rpartition("/")[2]
    if any(_NO_CHAT.search(text) for text in (file_name, family, _text(entry, "type"))):
        return None
    meta = entry.get("meta")
    aliases = entry.get("aliases")
    return ListedModel(
        name=name,
        aliases=tuple(each for each in aliases if isinstance(each, str)) if isinstance(aliases, list) else (),
        size=read_count(meta, "size"),
        parameter_count=read_count(meta, "n_params"),
        digest=_text(entry, "digest").removeprefix("sha256:"),
        root=_text(entry, "root"),
        owner=_text(entry, "owned_by"),
    )


def _entries(found: JSON) -> list[dict[str, JSON]]:
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _text(source: dict[str, JSON], name: str) -> str:
    value = source.get(name)
    return value if isinstance(value, str) else ""


def _names(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, names)))

"""The plan of an evaluation: the model, the settings, the dialects and the cases.

Rule: settings that change a single result are part of `terms`; those that only select results (dialects, categories)
are not.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from fcshim.client import Client
from fcshim.config import Config, ModelConfig, ModelSettings
from fcshim.errors import ConfigError
from fcshim.evaluate.bfcl import BFCL_CATEGORIES, bfcl_fingerprint, load_bfcl_cases
from fcshim.evaluate.case import Case
from fcshim.evaluate.result import NATIVE
from fcshim.evaluate.runner import CONCURRENCY, DEFAULT_SAMPLING, TIMEOUT
from fcshim.evaluate.suite import DEFAULT_CATEGORIES, fingerprint, load_cases
from fcshim.events import JSON
from fcshim.model_defaults import defaults_for
from fcshim.parse.dialects import AUTO
from fcshim.prompt.dialect_folder import find_dialect
from fcshim.upstream import Timeouts


class EvalPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation. `dialects` run one after the other; an empty tuple means the dialect of the settings."""

    config: Config
    model: str = ""
    """Empty: the first model that the endpoint lists."""
    dialects: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    """Empty: all of BFCL's single turn with `bfcl`, or else those of the suite that suit every model."""
    bfcl: Path | None = None
    """The folder of BFCL, whose cases take the place of the suite's."""
    limit: int | None = None
    sampling: Mapping[str, JSON] = msgspec.field(default_factory=lambda: dict(DEFAULT_SAMPLING))
    concurrency: int = CONCURRENCY
    timeout: float = TIMEOUT

    def check(self) -> None:
        """Check the names of categories and dialects before any request. Raises `ConfigError`."""
        self.cases()
        for dialect in self.dialects:
            if dialect not in (AUTO, NATIVE):
                find_dialect(dialect)
        if self._model_config().tools == NATIVE and self.dialects not in ((), (NATIVE,)):
            raise ConfigError(
                "--tools native makes tools native in every dialect: omit it, and compare with --dialect native"
            )

    def cases(self) -> Sequence[Case]:
        """Return the cases that run in each dialect. Raises `ConfigError` for an unknown category or folder."""
        if self.bfcl is not None:
            return load_bfcl_cases(self.bfcl, self.categories or BFCL_CATEGORIES, self.limit)
        return load_cases(self.categories or DEFAULT_CATEGORIES, self.limit)

    def labels(self) -> tuple[str, ...]:
        """Return the dialects as results name them: among `dialects`, `auto` is replaced by the one that it selects."""
        row = self._model_config()
        set_one = row.dialect if isinstance(row.dialect, str) else row.dialect.name
        chosen = self.dialects or (NATIVE if row.tools == NATIVE else set_one,)
        by_prompt = row.tools == "prompt" or self.dialects
        detected = defaults_for(row.upstream_model or self.model).dialect if by_prompt else AUTO
        return tuple(dict.fromkeys(detected if dialect == AUTO else dialect for dialect in chosen))

    def client(self, dialect: str) -> Client:
        """Make the client for one of the dialects. Raises `ConfigError`."""
        config, row = self.config, self._model_config()
        settings = {name: getattr(row, name) for name in ModelSettings.__struct_fields__ if name != "dialect"}
        if self.dialects and row.tools == AUTO:
            settings["tools"] = "prompt"  # dialects are compared, and native tools are one of them
        return Client(
            config.upstream,
            api=config.upstream_api,
            api_key=config.upstream_key.reveal() if config.upstream_key else None,
            model=row.upstream_model or self.model or None,
            dialect=None if dialect == NATIVE else dialect,
            constrain=config.constrain,
            timeouts=Timeouts(
                connect=config.connect_timeout, first_chunk=config.first_chunk_timeout, chunk=config.chunk_timeout
            ),
            **settings,
        )

    def terms(self) -> dict[str, JSON]:
        """Return everything that a single result depends on, without API keys."""
        row: dict[str, JSON] = msgspec.json.decode(msgspec.json.encode(self._model_config()))  # lists, as in a file
        del row[_DIALECT_SETTING]
        parts = urlsplit(self.config.upstream)
        return {
            "upstream": parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(),
            "upstream_api": self.config.upstream_api,
            "model": self.model,
            **row,
            "constrain": self.config.constrain,
            **self.sampling,
            "suite": bfcl_fingerprint(self.bfcl) if self.bfcl else fingerprint(),
            "version": version("fcshim"),
        }

    def _model_config(self) -> ModelConfig:
        return self.config.for_model(self.model)


_DIALECT_SETTING = "dialect"
"""The setting that is not part of the terms, because each result has its own dialect."""

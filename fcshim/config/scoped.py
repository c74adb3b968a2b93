"""Selects the settings that apply to one of several upstreams.

Rule: the result is a `Config` with one upstream, so that everything behind it works as with one upstream. A model that
a client names as `NAME/model` is `model` to the upstream NAME, unless a row of `models` says which upstream it is for.
"""

import msgspec

from fcshim.config.model_settings import ModelConfig
from fcshim.config.upstreams import UpstreamConfig
from fcshim.config.values import Config


class ScopedConfig(Config, frozen=True, kw_only=True):
    """The settings of the upstream `scope`. Made by `scoped_config`."""

    scope: str = ""

    def for_model(self, name: str) -> ModelConfig:
        """Return the settings for the model that clients call `name`."""
        own_name = name.removeprefix(f"{self.scope}/")
        if own_name == name or self.upstreams_of(name):
            return super().for_model(name)
        row = self.row_of(name) or self.row_of(own_name)
        model = self.merged_with(row)
        return msgspec.structs.replace(model, upstream_model=model.upstream_model or own_name)


_OVERRIDES = tuple(name for name in UpstreamConfig.__struct_fields__ if name in Config.__struct_fields__)
"""Settings that a section may have instead of the general ones."""


def scoped_config(config: Config, name: str) -> ScopedConfig:
    """Return the settings for the upstream of that name."""
    section = config.upstreams[name]
    special = {key: value for key in _OVERRIDES if (value := getattr(section, key)) is not None}
    own = {"upstream": section.url, "upstream_api": section.api, "upstream_key": section.key, "scope": name}
    return ScopedConfig(**{**{key: getattr(config, key) for key in Config.__struct_fields__}, **own, **special})

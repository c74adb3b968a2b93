"""The settings: one frozen `Config` from defaults, a TOML file, the environment (`FCSHIM_*`) and flags."""

from fcshim.config.load import FILE_VARIABLE, NOT_NAMED, check_file, check_worker_settings, load_config
from fcshim.config.model_settings import (
    ArgumentsPolicy,
    CutPromptPolicy,
    ModelConfig,
    ModelOptions,
    ModelOverrides,
    ModelSettings,
    ReasoningPolicy,
    ToolsPolicy,
)
from fcshim.config.scoped import ScopedConfig, scoped_config
from fcshim.config.secret import Secret
from fcshim.config.store_address import StoreAddress, parse_store_address
from fcshim.config.table import Setting, config_schema, model_settings, settings
from fcshim.config.upstreams import UpstreamConfig, check_name
from fcshim.config.values import Config, endpoint_url, host_and_port

__all__ = [
    "FILE_VARIABLE",
    "NOT_NAMED",
    "ArgumentsPolicy",
    "Config",
    "CutPromptPolicy",
    "ModelConfig",
    "ModelOptions",
    "ModelOverrides",
    "ModelSettings",
    "ReasoningPolicy",
    "ScopedConfig",
    "Secret",
    "Setting",
    "StoreAddress",
    "ToolsPolicy",
    "UpstreamConfig",
    "check_file",
    "check_name",
    "check_worker_settings",
    "config_schema",
    "endpoint_url",
    "host_and_port",
    "load_config",
    "model_settings",
    "parse_store_address",
    "scoped_config",
    "settings",
]

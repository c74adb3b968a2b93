"""The settings: one frozen `Config` from defaults, a TOML file, the environment (`FCSHIM_*`) and flags."""

from fcshim.config.check import check_file
from fcshim.config.load import FILE_VARIABLE, load_config
from fcshim.config.schema import config_schema
from fcshim.config.secret import Secret
from fcshim.config.table import Setting, settings
from fcshim.config.values import (
    ArgumentsPolicy,
    Config,
    ModelConfig,
    ModelOverrides,
    ReasoningPolicy,
    ToolsPolicy,
)

__all__ = [
    "FILE_VARIABLE",
    "ArgumentsPolicy",
    "Config",
    "ModelConfig",
    "ModelOverrides",
    "ReasoningPolicy",
    "Secret",
    "Setting",
    "ToolsPolicy",
    "check_file",
    "config_schema",
    "load_config",
    "settings",
]

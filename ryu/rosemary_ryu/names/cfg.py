"""Options of the command line and of configuration files, with the library that Ryu uses for them."""

import oslo_config.cfg
from oslo_config.cfg import (
    BoolOpt,
    ConfigFilesNotFoundError,
    ConfigOpts,
    FloatOpt,
    IntOpt,
    ListOpt,
    MultiStrOpt,
    Opt,
    OptGroup,
    RequiredOptError,
    StrOpt,
)

__all__ = [
    "CONF",
    "BoolOpt",
    "ConfigFilesNotFoundError",
    "ConfigOpts",
    "FloatOpt",
    "IntOpt",
    "ListOpt",
    "MultiStrOpt",
    "Opt",
    "OptGroup",
    "RequiredOptError",
    "StrOpt",
]

CONF = oslo_config.cfg.ConfigOpts()

"""States a problem while Faucet rejects its configuration: it works on with the one before, or without any.

Faucet reads its configuration in `ValvesManager.parse_configs`, which returns `None` for a bad one and keeps the error in
`meta_dp_state.config_hash_info`. Both are watched from outside; Faucet is unchanged.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any

LOG = logging.getLogger("rosemary.ryu")

_MODULE = "faucet.valves_manager"


def watch(state: Callable[[str | None], None]) -> None:
    """Calls `state` with a problem, or with `None`, each time that Faucet has read its configuration. Without Faucet, does nothing."""
    module = sys.modules.get(_MODULE)
    if module is None:
        return
    manager = getattr(module, "ValvesManager", None)
    parse = getattr(manager, "parse_configs", None)
    if parse is None:
        LOG.warning("this Faucet is unknown: `rosemary status` does not show whether it rejects its configuration")
        return

    @functools.wraps(parse)
    def parse_configs(self: Any, file: str) -> Any:
        configured = parse(self, file)
        if configured is None:
            info = getattr(self.meta_dp_state, "config_hash_info", None) or {}
            error = " ".join(str(info.get("error", "unknown error")).split())
            state(f"Faucet rejected {file} and keeps the configuration that it had: {error}; correct the file")
        else:
            state(None)
        return configured

    manager.parse_configs = parse_configs

"""The codec of Rosemary, for tools and tests: decodes any message of OpenFlow 1.0 to 1.5, and encodes it again."""

from __future__ import annotations

import json
from typing import Any

from ._native import Message, decode

__all__ = ["Message", "decode", "to_dict"]


def to_dict(message: bytes) -> dict[str, Any]:
    """Decodes one whole message to dictionaries, lists, numbers and text.

    Raises `ValueError`, which says which byte is wrong and what was expected.
    """
    return json.loads(decode(message).json)

"""`Idempotency-Key`: a request sent again gets the answer of the first and does nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from flask import request

from gramwatt.service.api.problems import invalid
from gramwatt.service.api.support import caller, service
from gramwatt.service.common.idempotency import answered_once

IDEMPOTENCY_KEY = "Idempotency-Key"
KEY_PATTERN = r"[!-~]{1,255}"
Answer = TypeVar("Answer")


def once(body: msgspec.Struct, work: Callable[[], Answer]) -> Answer:
    """Return what `work` answers, or answered to the first request of this caller with the same
    key.

    Raises Problem for a key that is none, was used for another request, or is being answered.
    """
    key = request.headers.get(IDEMPOTENCY_KEY)
    if key is None:
        return work()
    if not re.fullmatch(KEY_PATTERN, key):
        raise invalid(f"header.{IDEMPOTENCY_KEY}", "has 1 to 255 printable ASCII characters")
    asked = f"{request.method} {request.full_path} ".encode() + msgspec.json.encode(body)
    digest = hashlib.sha256(asked).hexdigest()
    answer: Any = answered_once(service().for_every_project(), caller().identity, key, digest, work)
    return answer  # type: ignore[no-any-return]

"""A test client that shows a key, as every caller must; a test may give its own or none."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from gramwatt.service.access.keys import create_key, revoke_key
from gramwatt.service.api.access import EXTENSION
from gramwatt.service.common.errors import UnknownKeyError
from gramwatt.service.container import Service

NAME = "api"


def key_of(app: Flask) -> str:
    """The key of an admin of the app, made at first."""
    if NAME not in app.extensions:
        service: Service = app.extensions[EXTENSION]
        with suppress(UnknownKeyError):  # another app over this store has made one
            revoke_key(service, NAME)
        app.extensions[NAME] = create_key(service, NAME, "admin").key
    made: str = app.extensions[NAME]
    return made


class KeyedClient(FlaskClient):
    """Adds the admin's key to a request without `Authorization`; an empty one sends none."""

    def open(self, *args: Any, **options: Any) -> Any:
        headers = dict(options.pop("headers", None) or {})
        headers.setdefault("Authorization", f"Bearer {key_of(self.application)}")
        if not headers["Authorization"]:
            del headers["Authorization"]
        return super().open(*args, headers=headers, **options)

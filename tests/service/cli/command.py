"""The service's commands, run in this process."""

import typer
from typer.testing import CliRunner

from gramwatt.service.cli.app import add_commands


def gramwatt(*arguments: str, input: str | None = None) -> tuple[int, str, str]:
    """The command's exit code, stdout and stderr; `input` is what its user types."""
    app = typer.Typer()
    add_commands(app)
    done = CliRunner().invoke(app, list(arguments), input=input)
    return done.exit_code, done.stdout, done.stderr

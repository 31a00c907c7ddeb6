"""A command, run in this process."""

from typer.testing import CliRunner

from gramwatt.collectors.cli.app import COMMANDS, build_app
from gramwatt.collectors.settings.installation import local_store


def gramwatt(*arguments: str, input: str | None = None) -> tuple[int, str, str]:
    """The command's exit code, stdout and stderr; `input` is what its user types."""
    names = [name for name in arguments[:1] if name in COMMANDS]
    done = CliRunner().invoke(build_app(local_store, names), list(arguments), input=input)
    return done.exit_code, done.stdout, done.stderr

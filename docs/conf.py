"""The documentation site: `sphinx-build -W -b dirhtml docs FOLDER`; nothing is fetched for it.

The pages are docs/*.md; the reference is made of the code each time (`_generated/`, not kept).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gramwatt import __version__

project, author = "gramwatt", "the gramwatt authors"
copyright = "the gramwatt authors, Apache-2.0"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["examples"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
html_theme = "furo"
html_title = "gramwatt"
html_show_sphinx = False
autodoc_typehints = "description"
autodoc_member_order = "bysource"
suppress_warnings = ["myst.strikethrough"]

GENERATED = "_generated"
PYTHON = """# Python reference

```{eval-rst}
.. autofunction:: gramwatt.track

.. autoclass:: gramwatt.collectors.track.track.Job
   :members:

.. automodule:: gramwatt.client
   :members: Client
```
"""


def commands() -> str:
    """Return every command with its options, from the command itself."""
    import typer

    from gramwatt.collectors.cli.app import build_app
    from gramwatt.collectors.settings.installation import local_store

    app = build_app(local_store)
    return "# Commands and options\n\n" + "\n".join(_described(typer.main.get_command(app), ""))


def _described(found: Any, prefix: str) -> Iterator[str]:
    for name, one in found.commands.items():
        title = f"{prefix} {name}".strip()
        yield f"## gramwatt {title}\n\n```text\n{(one.help or '').strip()}\n```\n"
        options = [p for p in one.params if p.param_type_name == "option" and not p.hidden]
        if options:
            yield "| option | |\n|---|---|"
            for option in options:
                text = (option.help or "").replace("\n", " ").replace("|", "\\|")
                yield f"| `{', '.join(option.opts)}` | {text} |"
            yield ""
        if hasattr(one, "commands"):
            yield from _described(one, title)


def routes() -> str:
    """Return every operation of the API, from its OpenAPI description."""
    from gramwatt.service.api import openapi
    from gramwatt.service.app import GROUPS

    described = openapi.document(GROUPS)
    rows = [
        f"| `{method.upper()} {path}` | {operation.get('summary', '')} |"
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if isinstance(operation, dict) and "responses" in operation
    ]
    head = (
        "# Routes\n\nWhat they take and answer: [HTTP API](../api.md).\n\n| route | |\n|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def data() -> str:
    """Return the columns of every data file, from the classes that read them."""
    from gramwatt.sci.catalog.files import FILES
    from gramwatt.sci.figures.csv_data import columns

    text = (
        "# Columns of the data files\n\nWhere they are from: [data sources](../data-sources.md).\n"
    )
    for kind in FILES:
        text += f"\n## {', '.join(kind.files)}\n\n{inspect.getdoc(kind)}\n\n"
        text += "| column | what | cells | values are in |\n|---|---|---|---|\n"
        text += "".join(
            f"| `{row.name}` | {row.text} | {row.cells} | {row.ref or ''} |\n"
            for row in columns(kind)
        )
    return text


def write_reference(app: Any) -> None:
    """Write the pages that the code has the words of."""
    folder = Path(app.srcdir) / GENERATED
    folder.mkdir(exist_ok=True)
    pages = {"commands": commands(), "routes": routes(), "data": data()}
    pages["python"] = PYTHON
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, "utf-8")


def write_llms(app: Any, failure: Exception | None) -> None:
    """Write llms.txt, the list of pages for programs that read, and the pages as they are."""
    if failure is not None:
        return
    source, out = Path(app.srcdir), Path(app.outdir)
    pages = sorted(source.glob("*.md"))
    lines = [f"# gramwatt {version}", "", "> Carbon-aware SCI reporting for AI jobs.", ""]
    for page in pages:
        text = page.read_text("utf-8")
        (out / page.name).write_text(text, "utf-8")
        lines.append(f"- [{text.splitlines()[0].lstrip('# ')}]({page.name})")
    (out / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def setup(app: Any) -> None:
    """Make the reference before the pages are read, and llms.txt after they were written."""
    app.connect("builder-inited", write_reference)
    app.connect("build-finished", write_llms)

"""What a page asks for and complains about while a test uses it."""

from __future__ import annotations

from playwright.sync_api import ConsoleMessage, Page, Request, Response


class Watch:
    """Collects faults: requests to elsewhere, errors, refusals, console messages, dialogs."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.asked: list[str] = []
        self.faults: list[str] = []
        self.expected_status = 200

    def over(self, page: Page) -> None:
        """Watch everything this page does, violations of its own policy included."""
        page.on("request", self._request)
        page.on("response", self._response)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"script error: {error}"))
        page.on("dialog", lambda dialog: self._refuse(f"a dialog: {dialog.message}", dialog))
        page.on("requestfailed", self._failed)

    def _refuse(self, words: str, dialog: object) -> None:
        self.faults.append(words)
        dialog.dismiss()  # type: ignore[attr-defined]

    def _request(self, request: Request) -> None:
        self.asked.append(request.url)
        if not request.url.startswith((f"{self.site}/", "data:")):
            self.faults.append(f"a request to elsewhere: {request.url}")

    def _response(self, response: Response) -> None:
        expected = self.expected_status if response.request.is_navigation_request() else 200
        if response.status not in (200, 304, expected):
            self.faults.append(f"{response.status} from {response.url}")

    def _failed(self, request: Request) -> None:
        # A page that is left while it still loads aborts what it asked for.
        if request.failure != "net::ERR_ABORTED":
            self.faults.append(f"{request.failure} from {request.url}")

    def _console(self, message: ConsoleMessage) -> None:
        # Chromium itself reports the status of a page that a test means to be an error.
        if self.expected_status == 200 or "the server responded" not in message.text:
            self.faults.append(f"console {message.type}: {message.text}")

"""A running service and a real browser, for the tests of the page."""

import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import uvicorn
from playwright.sync_api import BrowserContext, Page

from starqe.ask import Answerer
from starqe.serve import ServeSettings, create_app

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_REFUSED = re.compile(r"Failed to load resource: (the server responded with a status of [45]|net::ERR_INTERNET_DISCONNECTED)")


@contextmanager
def running(answerer: Answerer, **settings: object) -> Iterator[str]:
    """Runs a service in a thread; gives its address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        app = create_app(answerer, ServeSettings.parse(settings))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{opened.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def watched(context: BrowserContext, home: str) -> tuple[Page, list[str]]:
    """Opens a page whose wrongs are written down: errors, dialogues, and requests to another host.

    That a request was refused is no wrong: the browser itself says so on the console, and the page shows why.
    """
    wrongs: list[str] = []
    page = context.new_page()

    def on_dialog(dialog) -> None:
        wrongs.append(f"dialogue: {dialog.message}")
        dialog.dismiss()

    def on_console(message) -> None:
        if message.type in ("error", "warning") and not _REFUSED.match(message.text):
            wrongs.append(message.text)

    page.on("dialog", on_dialog)
    page.on("console", on_console)
    page.on("pageerror", lambda error: wrongs.append(str(error)))
    page.on("request", lambda request: urlsplit(request.url).netloc == urlsplit(home).netloc or wrongs.append(request.url))
    return page, wrongs

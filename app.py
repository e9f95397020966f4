"""The app: `python app.py`, then open the address it prints. Also what a Space runs.

Nothing here touches an accelerator: a session does so when it first runs something. With
--replay the page is a player that needs no torch and no model.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from specviz.places import gathered
from specviz.served import ServedSession
from specviz.session import LiveSession, ReplaySession
from specviz.trace import Progress
from specviz.trace_io import read_trace
from specviz.ui.build import build_ui, launch
from specviz.ui.playback import Recordings
from specviz.ui.warm_up import WarmUp
from specviz.words import ASSETS, tell
from specviz.zero import ZeroSession, is_zero_gpu


def main() -> None:
    words = parser()
    options = words.parse_args()
    try:
        if options.replay:
            replay(options)
        else:
            live(options)
    except (OSError, ValueError) as error:  # a file or an option that cannot be used
        words.error(str(error))


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(description="Speculative decoding, drawn as it happens.")
    words.add_argument("--replay", type=Path, metavar="FILE", help="show one saved trace, no model")
    words.add_argument(
        "--target", type=Path, metavar="PATH", help="offer this local checkpoint too"
    )
    words.add_argument(
        "--draft", metavar="PATH|OWNER/NAME", help="a draft model for it, here or on the Hub"
    )
    words.add_argument(
        "--drafters",
        action="append",
        default=[],
        metavar="[METHOD=]PLACE",
        help="trained drafters of your own: a folder, a weight file or a repository of the Hub; "
        "repeatable",
    )
    words.add_argument(
        "--server", metavar="URL", help="an OpenAI-compatible server to ask on the page `benchmark`"
    )
    words.add_argument("--host", help="address to serve on (default: $GRADIO_SERVER_NAME)")
    words.add_argument(
        "--port", type=_port, help="port (default: $GRADIO_SERVER_PORT, or from 7860)"
    )
    return words


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to 65535; got {text!r}")
    return int(text)


def _say(progress: Progress) -> None:
    """A download before the page is up, on one line of the terminal."""
    size = f" {progress.done / 1e6:.0f} of {progress.total / 1e6:.0f} MB" if progress.total else ""
    sys.stderr.write(f"\r{tell(progress.message)}{size}\033[K")
    sys.stderr.flush()


def _shipped_runs() -> list[Path]:
    return sorted((ASSETS / "traces").glob("*.jsonl.gz"))


def replay(options: argparse.Namespace) -> None:
    """The file first; the recorded runs stay beside it, as the chapters are told on them."""
    path, session = options.replay, ReplaySession(read_trace(options.replay))
    recorded = Recordings([path, *(p for p in _shipped_runs() if p.name != path.name)])
    recorded.prepare()
    launch(build_ui(session, recorded), options.host, options.port)


def live(options: argparse.Namespace) -> None:
    folder = options.target
    if folder is not None and not (folder / "config.json").is_file():
        raise ValueError(f"--target takes the folder of a checkpoint; {folder} has no config.json.")
    found = gathered(options.drafters, options.draft, _say)
    live_session = LiveSession(folder, found.draft, found.drafters)
    zero = ZeroSession(live_session) if is_zero_gpu() else None
    session = zero or live_session
    recorded = Recordings(_shipped_runs())
    # A run of its own would ask for a GPU before anybody has come.
    warm_up = WarmUp(zero.fetching if zero else session)
    served = ServedSession(options.server) if options.server else None
    page = build_ui(session, recorded, warm_up, served)
    recorded.prepare()
    try:
        launch(page, options.host, options.port, prevent_thread_lock=True)
        # Only now, and when the first visitor has a picture: what loads a model keeps the page from
        # being served.
        warm_up.start(after=recorded.has_shown)
        page.block_thread()
    finally:
        live_session.close()


if __name__ == "__main__":
    main()

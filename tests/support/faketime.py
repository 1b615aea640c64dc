"""A clock that a test moves, for a real server: libfaketime in front of the server's own calls for the time of day.

The server reads the time from a file. Its monotonic clock stays true, so its time-outs and its loop work as ever.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.support.auth_harness import Time
from tests.support.counterparts import missing

_PLACES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime")


def library() -> Path:
    """The library to preload; ends the test where there is none."""
    found = [path for place in _PLACES for path in sorted(Path("/").glob(f"{place.lstrip('/')}/libfaketime.so.1"))]
    return found[0] if found else missing("libfaketime")


class ServerTime(Time):
    """The time of day of a server, in a file that the server reads: true until `write` stops it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._put("+0")

    def environment(self) -> dict[str, str]:
        """What the server's environment needs besides its own."""
        return {
            # Redis brings an allocator that asks for the time before the library is ready; libc's own does not.
            "LD_PRELOAD": f"{library()}:libc.so.6",
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
            "TZ": "UTC",
        }

    def begin(self) -> ServerTime:
        """Stop at the moment at which every test begins."""
        self.s = Time.s
        self.write()
        return self

    def pass_s(self, seconds: float) -> None:
        super().pass_s(seconds)
        self.write()

    def write(self) -> None:
        """Make it now for the server too. Whole milliseconds, with a half so that no rounding makes it one less."""
        at = datetime.fromtimestamp(self.now_ms() // 1000, UTC)
        text = f"{at:%Y-%m-%d %H:%M:%S}.{self.now_ms() % 1000:03d}5"
        self._put(text)

    def _put(self, text: str) -> None:
        part = self._file.with_suffix(".part")
        part.write_text(text)
        part.chmod(0o644)
        part.replace(self._file)

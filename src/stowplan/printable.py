"""Text that others wrote, made fit for a terminal, a log line or a table.

Names, messages and annotations may hold anything: escape sequences that move a cursor or rename
a window, newlines that begin a forged line, marks that turn the order of letters around, halves
of characters that cannot be encoded.  What a reader cannot see is written out instead.

Called where text leaves the process: `cli._output`, `runtime.log`, `runtime.endpoints`; and by
whoever writes to Python's `logging`, whose handlers belong to whoever imports Stowplan.  Beside it,
how counts and long lists of names are told.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Sequence

_UNSEEN = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_UNSAFE = re.compile(f"[\x00-\x1f{_UNSEEN}]")
_UNSAFE_IN_JSON = re.compile(f"[{_UNSEEN}]")

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """One line, in which a terminal finds nothing to obey.

    >>> printable("a\\x1b[31mb\\nc\\x9bd")
    'a\\\\x1b[31mb\\\\nc\\\\x9bd'
    """
    return _UNSAFE.sub(_written_out, text) if _UNSAFE.search(text) else text


def printable_lines(text: str) -> str:
    """The same for text of several lines, which stay lines.

    >>> printable_lines("a\\x1b\\nb")
    'a\\\\x1b\\nb'
    """
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """JSON that says the same; controls below 0x20 are escaped in any JSON.

    >>> printable_json('["\\x9b"]')
    '["\\\\u009b"]'
    """
    return _UNSAFE_IN_JSON.sub(_as_json, text) if _UNSAFE_IN_JSON.search(text) else text


def logger(name: str) -> logging.Logger:
    """Python's, in whose records no text is raw, whichever handler writes them."""
    found = logging.getLogger(name)
    found.addFilter(_make_printable)
    return found


def _make_printable(record: logging.LogRecord) -> bool:
    record.msg, record.args = printable(record.getMessage()), ()
    if record.exc_info and record.exc_info[1] is not None:
        trace = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        # Indented, so that no line of it can be taken for one of the log.
        record.exc_text = "\t" + "\n\t".join(map(printable, trace.split("\n")))
    return True


def _written_out(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    return _SHORT.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


def _as_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def count_of(count: int, thing: str) -> str:
    """
    >>> count_of(1, "pod"), count_of(2, "pod")
    ('1 pod', '2 pods')
    """
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def some_of(names: Sequence[str], shown_max: int = 3) -> str:
    """The first few, and how many more there are.

    >>> some_of(["a", "b", "c"]), some_of(["a", "b", "c", "d", "e"])
    ('a, b, c', 'a, b, c and 2 more')
    """
    shown = ", ".join(names[:shown_max])
    rest = len(names) - shown_max
    return f"{shown} and {rest} more" if rest > 0 else shown

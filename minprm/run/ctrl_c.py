"""Ctrl-C. Where training goes on, it waits for the end of the update; elsewhere it stops at once.

Elsewhere nothing is lost by that: every file is written whole or not at all, and what was begun is
begun again by --resume.
"""

import signal

from loguru import logger

from minprm.model.processes import gathered


class CtrlC:
    """`with CtrlC() as ctrl_c:` Inside, the first Ctrl-C only makes `ctrl_c.pressed` true.

    Whoever sees it saves, and raises KeyboardInterrupt; at the latest that happens at the end of
    the block. A second Ctrl-C ends the process at once.
    """

    noted = False  # in this process

    @property
    def pressed(self) -> bool:
        """In any of the processes. All have to ask, so that they stop after the same update."""
        return any(gathered(self.noted))

    def __init__(self, silent: bool = False):
        """silent: whoever sees that it was pressed calls `say`."""
        self.silent = silent

    def __enter__(self) -> "CtrlC":
        self.before = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, *_) -> None:
        self.noted = True
        if not self.silent:
            self.say()
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def say(self) -> None:
        """Tells the user what is waited for."""
        logger.info("stopping after this update (where batches are played ahead: after the next)")

    def __exit__(self, kind, *_) -> None:
        signal.signal(signal.SIGINT, self.before)
        if kind is None and self.pressed:
            raise KeyboardInterrupt

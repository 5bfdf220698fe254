"""Ctrl-C. Where training goes on, it waits for the end of the update; elsewhere it stops at once.

Elsewhere nothing is lost by that: every file is written whole or not at all, and what was begun is
begun again by --resume. SIGTERM, which a cluster sends before it takes a machine away, is the same.
"""

import signal

from loguru import logger

from minprm.model.alone import ALONE, Alone

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class CtrlC:
    """`with CtrlC() as ctrl_c:` Inside, the first Ctrl-C only makes `ctrl_c.pressed` true.

    Whoever sees it saves, and raises KeyboardInterrupt; at the latest that happens at the end of
    the block. A second Ctrl-C ends the process at once. A second SIGTERM does not: a cluster may
    send it to each process and to torchrun, which hands it on.
    """

    noted = False  # in this process

    @property
    def pressed(self) -> bool:
        """In any of the processes. All have to ask, so that they stop after the same update."""
        return any(self.shares.gathered(self.noted))

    def __init__(self, shares: Alone = ALONE, silent: bool = False):
        """shares: with whom this process stops. silent: whoever sees that it was pressed calls
        `say`."""
        self.shares = shares
        self.silent = silent

    def __enter__(self) -> "CtrlC":
        self.before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def _note(self, *_) -> None:
        if not self.noted and not self.silent:
            self.say()
        self.noted = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def say(self) -> None:
        """Tells the user what is waited for."""
        logger.info(
            "stopping after this update (where batches are played ahead: at the next snapshot)"
        )

    def __exit__(self, kind, *_) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        if kind is None and self.pressed:
            raise KeyboardInterrupt

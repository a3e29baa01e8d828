# SPDX-License-Identifier: BSD-3-Clause
"""Blocking calls that Ctrl-C ends.

Python runs signal handlers in the main thread only, between two of its instructions: a main thread inside of C would
never come to them. So what may take long there is done by a thread of its own, which the main one waits for.
"""
from __future__ import annotations

import threading
from typing import Any, Callable


class Task(threading.Thread):
    """Makes one blocking call. It goes on when the one who waits is interrupted, and can be waited for again."""

    def __init__(self, call: Callable[[], Any]):
        super().__init__(name="tutti", daemon=True)
        self._call = call
        self._result: Any = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._then: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self.start()

    def run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error
        with self._lock:
            self._ended.set()
            then, self._then = self._then, []
        for each in then:
            each()

    def ended(self) -> bool:
        return self._ended.is_set()

    def then(self, call: Callable[[], None]) -> None:
        """Calls it when the task has ended: in its thread, or here and now."""
        with self._lock:
            if not self._ended.is_set():
                self._then.append(call)
                return
        call()

    def result(self) -> Any:
        """Waits. What the call has raised is raised here."""
        self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._result


def interruptible(call: Callable[[], Any], *, interrupted: Callable[[], None] | None = None) -> Any:
    """call(), in a thread of its own if this is the main one. `interrupted` is called when Ctrl-C ends the wait."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    task = Task(call)
    try:
        return task.result()
    except KeyboardInterrupt:
        if interrupted is not None:
            interrupted()
        raise

"""Waiting on a condition, never on time."""
import threading
import time

_never = threading.Event()


class NotInTime(AssertionError):
    pass


def eventually(condition, what, seconds=30.0, every=0.02):
    """Returns the first true value of condition(); raises NotInTime with the last answer or exception."""
    deadline = time.monotonic() + seconds
    last = None
    while True:
        try:
            last = condition()
            if last:
                return last
        except Exception as error:  # noqa: BLE001 - a process that is not there yet raises all sorts
            last = error
        if time.monotonic() > deadline:
            raise NotInTime(f"not within {seconds:g} s: {what}; last: {last!r}")
        _never.wait(every)


def random_moment(rng, low, high):
    """Lets a random time pass: for choosing the instant of a fault, not for waiting on anything."""
    _never.wait(rng.uniform(low, high))


def paced(interval, seconds):
    """Yields at a fixed pace for so long, at once for the first time: for taking samples. One that takes longer than the interval puts
    the next ones off; what was missed is not made up for."""
    due = time.monotonic()
    until = due + seconds
    while time.monotonic() < until:
        yield
        due = max(due + interval, time.monotonic())
        _never.wait(max(due - time.monotonic(), 0))

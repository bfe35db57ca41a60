from cxrtext.phantom import Patient
from cxrtext.phantom.state import State


def patient(state: State, number: int = 0) -> Patient:
    """One of several patients, from behind and from the front by turns."""
    return Patient(state, ("PA", "AP")[number % 2], (0, 1, number), (0, 2, number))

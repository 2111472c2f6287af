"""Spending: a release is counted before it is drawn, and drawn once however a program ends.

``reserve -> draw -> keep -> confirm -> show``: the owner's ledger counts a release before its noise
is drawn; its bytes are kept before anybody sees them; a program that is killed in between finishes
that very release at its next start, and pays once. Devices keep bytes in their state folder, all
other programs in a turn.
"""

from sfumato.shared.spending.ledger import OwnersLedger, Reservation, Spent
from sfumato.shared.spending.places import find_ledger
from sfumato.shared.spending.turns import Account, Turn, take_turn

__all__ = [
    "Account",
    "OwnersLedger",
    "Reservation",
    "Spent",
    "Turn",
    "find_ledger",
    "take_turn",
]

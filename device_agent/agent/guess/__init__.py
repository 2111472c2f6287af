"""A first configuration from a look at a file, address or topic, with what is doubtful about it.

The look is for the owner, on the device: nothing is stored, sent or spent. It proposes how records
are read, never what a plan says of them: bounds and levels are public knowledge, not the records'.
"""

from sfumato.device_agent.agent.guess.addresses import guess_address
from sfumato.device_agent.agent.guess.look import N_SHOWN, guess_file
from sfumato.device_agent.agent.guess.tables import Guess
from sfumato.device_agent.agent.guess.topics import LISTEN_S, guess_topic

__all__ = ["LISTEN_S", "N_SHOWN", "Guess", "guess_address", "guess_file", "guess_topic"]

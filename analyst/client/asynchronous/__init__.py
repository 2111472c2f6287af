"""The client as coroutines: the hand-written source, from which its twin is generated."""

"""Kinds of answers: what an analysis or a decode computes, and how it is described."""

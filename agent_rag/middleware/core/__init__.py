"""Decides what a model sees; imports no framework."""

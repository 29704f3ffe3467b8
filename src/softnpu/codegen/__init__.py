"""Generators that CMake runs at build time, one module per generated file."""

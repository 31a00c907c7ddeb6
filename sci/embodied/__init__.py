"""Embodied carbon TE of accelerators and hosts: published studies first, else a model.

Imports `catalog` and `base`.
"""

"""Interfaces as modules.

Written by `sapwood idl python`: change the definition, and write it again.
"""

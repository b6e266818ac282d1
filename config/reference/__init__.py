"""The commented reference files: every setting with its default, meaning and unit, in both formats.

They describe one branch, with examples where a setting has no default, and load to the same model.
Generated from the model by `python -m config.schema`.

| module | |
|---|---|
| `generate` | generates the reference files from the model |
"""

from importlib import resources


def reference_xml() -> str:
    """Return the reference file in XML."""
    return resources.files(__name__).joinpath("reference.xml").read_text("utf-8")


def reference_yaml() -> str:
    """Return the reference file in YAML."""
    return resources.files(__name__).joinpath("reference.yaml").read_text("utf-8")

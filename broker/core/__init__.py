"""The node as a pure state machine: inputs in, operations and effects out."""

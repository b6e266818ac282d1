"""Alarms on the node's figures: raised, ended, shown, and told to a webhook.

| module | |
|---|---|
| `state` | one alarm: when a figure raises it and when it ends; pure |
| `watch` | all alarms of a node: told each sample, kept on disk while they are raised |
| `webhook` | tells a receiver of each that is raised or ends, again and again until it takes it |
"""

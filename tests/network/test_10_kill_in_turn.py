"""Every acknowledged message arrives, once and in order, although leaf, branch and root are killed in turn under load."""

"""Everything that touches another program: link carriers and site-broker bridges."""

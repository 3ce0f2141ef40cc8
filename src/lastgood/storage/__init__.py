"""Back ends: where the bytes of a store lie, behind one interface."""

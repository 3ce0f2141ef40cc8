"""The four levels that are built, an object ``LEVEL`` each, and the list of them."""

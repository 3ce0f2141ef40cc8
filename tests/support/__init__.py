"""What tests share: checks that survive ``python -O``, and what a test may require."""

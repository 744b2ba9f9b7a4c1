"""Mutants: small faults planted in the code that keeps promises; each must be caught by a test.

``make mutants`` plants them all, one at a time, and runs the tests of the place where each stands.
"""

"""Laws that components of any author keep: test classes to inherit from."""

"""The template search by the package `gepa`, for comparison."""

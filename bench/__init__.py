"""Speed, printed as ratios of times measured in one run; see README.md."""

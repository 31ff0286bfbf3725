"""Measurements that users can repeat: ratios taken side by side in one run against what they would pick instead."""

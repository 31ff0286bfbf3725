"""Plots as SVG, drawn by hand: axes with units, error bars, marks that do not depend on colour alone."""

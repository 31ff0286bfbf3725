"""Reports: what a run or an experiment left in its folder, as one HTML page or as Markdown.

::

    folders      what lies in a folder: a run of all parties, the server's part, a client's part, an experiment
    run_*        a run as blocks of a page          experiment_section, figures/  an experiment as blocks of a page
    document     the blocks                         charts/                       plots as SVG, drawn by hand
    html, markdown                                  blocks as text; everything is escaped here
"""

"""OMP_NUM_THREADS=1 python -m benchmarks.parallel [--json FILE]: what a second process saves.

What is sent, on paper. N processes; M bytes of weights that are trained (4 a weight: gradients are
fp32); L layers; T tokens that are drawn or scored; B micro-batches of the process with the most.
A ring sends 2 (N-1)/N of what it sums and (N-1)/N of what it hands out or puts together. All that
a process sends:

    gathered        two all_gathers, of a length and of what is pickled, filled up to the longest
    generate        2 gathers of a number each, and one of the completions for each 512 of them;
                    about 12 (N-1)/N T bytes (9 a log-prob, 3 an id)
    readings        1 gather; 8 (N-1)/N T bytes and 300 a Sample
    a walk's step   one generate and one readings: 4 gathers, whatever the number of logs
    update, whole   2 gathers (statistics, names) and 1 all_reduce: 2 (N-1)/N M bytes. No update on
                    N shares of the samples can do with less: that many bytes a sum takes
    update, spread  4 gathers; in each micro-batch L+1 all_gathers forward, L backward (the last
                    part stays), L+1 reduce_scatters: about 3 (N-1)/N M bytes, times B
    after it        the first generate puts all weights together: L+1 all_gathers, (N-1)/N M bytes
"""

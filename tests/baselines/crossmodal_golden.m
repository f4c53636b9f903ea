% Run the public code of CMFH, FSH, SCM and SCRATCH on small random data and store the results.
%
%   octave --path CMFH:FSH:SCM:SCRATCH crossmodal_golden.m
%
% The folders hold CMFH_learn.m, trainSCM_seq.m and trainCCA.m of BMC-SDNU/Cross-Modal-Hashing-Retrieval
% (commit 0196e31), trainFSH.m and EuDist2.m of LynnHongLiu/FSH (de7f82e), and train.m of
% lichuanxiang/SCRATCH (a3bad26). The lines for W1 and W2 in CMFH_learn.m need parentheses,
% (mu * X' * X + gamma * I) \ (mu * X' * Y): as printed, they divide by mu. Random starts are drawn
% twice from one state, once to be stored.
n = 60; bits = 6; classes = 3;
randn('state', 1); rand('state', 1);
y = mod(0:n - 1, classes)';
places = 1.5 * randn(classes, 9);
X = places(y + 1, :) + randn(n, 9);
Y = X * randn(9, 8) + randn(n, 8);
X = X - mean(X); Y = Y - mean(Y);
L = double(y == 0:classes - 1);

rand('state', 2);
cmfh_V = rand(n, bits); rand(bits, 9); rand(bits, 8); cmfh_P_x = rand(9, bits); cmfh_P_y = rand(8, bits);
rand('state', 2);
param = struct('alphas', [0.4 0.6], 'mu', 10, 'gamma', 0.5);
[model, cmfh_V_end] = CMFH_learn(X, Y, param, bits);
cmfh_P_x_end = model.W1; cmfh_P_y_end = model.W2;

rand('state', 3); randn('state', 3);
fsh_anchors = randperm(n)(1:20); fsh_P_x = randn(9, bits); fsh_P_y = randn(8, bits);
rand('state', 3); randn('state', 3);
opt = struct('k', 4, 'Nsamp', 20, 'iter', 12, 'lambda', 3, 'lam', 0.5, 'cca', 0, 'km', 1);
[fsh_P_x_end, fsh_P_y_end, fsh_B] = trainFSH(X', Y', bits, opt);

[scm_P_x, scm_P_y] = trainSCM_seq(X, Y, bits, L);
[cca_P_x, cca_P_y, cca_squares] = trainCCA(X' * X + 0.3 * eye(9), Y' * Y + 0.3 * eye(8), X' * Y, bits);

randn('state', 4);
scratch_V = randn(bits, n)'; randn(bits, 9); randn(bits, 8); [scratch_R, ~, ~] = svd(randn(bits, bits));
randn('state', 4);
param = struct('nbits', bits, 'lambdaX', 0.4, 'alpha', 20, 'gamma', 0.5, 'Xmu', 10, 'iter', 15);
[Wx, Wy, R, scratch_B] = train(X, Y, param, L);
scratch_P_x = Wx' * R'; scratch_P_y = Wy' * R';

save('-v7', 'crossmodal_golden.mat', 'X', 'Y', 'y', 'cca_*', 'cmfh_*', 'fsh_*', 'scm_*', 'scratch_*');

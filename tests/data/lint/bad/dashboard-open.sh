#!/bin/bash
tensorboard --logdir runs --bind_all &
jupyter lab --no-browser --ip=0.0.0.0 --port 8888 &
ray start --head --dashboard-host 0.0.0.0
mlflow server --host "0.0.0.0" &
prometheus --config.file=p.yml --web.listen-address=0.0.0.0:9090 &
docker run -d -p 3000:3000 grafana/grafana
sudo ufw allow 3000/tcp
firewall-cmd --permanent --add-port=6006/tcp
iptables -A INPUT -p tcp --dport 9093 -j ACCEPT
# lint-expect: 2,3,4,5,6,7,8,9,10

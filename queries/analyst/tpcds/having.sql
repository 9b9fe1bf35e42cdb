select ss_customer_sk, count(*) n, sum(ss_net_paid) s
from store_sales
group by ss_customer_sk
having count(*) > 60 and sum(ss_net_paid) > 100000
order by s desc, 1

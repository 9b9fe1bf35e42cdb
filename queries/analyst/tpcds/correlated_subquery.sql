select count(*), sum(ss_net_paid)
from store_sales s1
where ss_net_paid > (select 2*avg(ss_net_paid)
  from store_sales s2
  where s2.ss_store_sk=s1.ss_store_sk)

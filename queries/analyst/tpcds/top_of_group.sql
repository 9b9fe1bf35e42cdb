select *
from (select s_store_name, i_item_id, sum(ss_net_profit) p, row_number() over (partition by s_store_name order by sum(ss_net_profit) desc, i_item_id) rn
  from store_sales
  join item on ss_item_sk=i_item_sk
  join store on ss_store_sk=s_store_sk
  group by s_store_name, i_item_id) t
where rn<=5
order by s_store_name, rn

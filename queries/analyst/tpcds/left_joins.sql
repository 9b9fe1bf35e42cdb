select s_state, i_category, count(*) n, sum(ss_quantity) q
from store_sales
left join store on ss_store_sk=s_store_sk
left join item on ss_item_sk=i_item_sk
left join store_returns on ss_ticket_number=sr_ticket_number and ss_item_sk=sr_item_sk
group by s_state, i_category
order by n desc, 1, 2
limit 20
